import { createLog } from '../../src/log.ts';

/** Logs its argument, as a program of the service would that has a leak. */
createLog('test', 'info').info({ value: process.argv[2] }, 'a leak');
