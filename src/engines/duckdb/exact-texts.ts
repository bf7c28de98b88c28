import accessors from '@duckdb/node-api/lib/vectors/dataAccessors.js';

// node-api's own decoder takes a byte order mark at the beginning of a text for no part of
// it: what is read would not be what was written, nor be found by it.
Object.assign(accessors, { textDecoder: new TextDecoder('utf-8', { ignoreBOM: true }) });
