import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const root = dirname(createRequire(import.meta.url).resolve('#package.json'));

/** The path of a file in this package, both from sources and from `dist`. */
export const packageFile = (path: string): string => join(root, path);

/** The compiled file of a program. */
export const builtProgram = (source: string): string =>
  packageFile(join('dist', source.replace(/\.ts$/, '.js')));

/** Node's arguments that run a program: the product's compiled, others from their sources. */
export const programArguments = (source: string): string[] =>
  /^(src|sync)\//.test(source) ? [builtProgram(source)] : ['--import', 'tsx', packageFile(source)];
