import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const root = dirname(createRequire(import.meta.url).resolve('#package.json'));

/** A file of this package, by its path from the root: the same from a source and from its build. */
export const packageFile = (path: string): string => join(root, path);

/** What `npm run build` makes of a program, by the path of its source from the root. */
export const builtProgram = (source: string): string =>
  packageFile(join('dist', source.replace(/\.ts$/, '.js')));
