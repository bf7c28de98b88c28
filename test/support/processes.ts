import { execFileSync } from 'node:child_process';

/** The processes that a process has started and whose command lines match. */
export function childrenOf(pid: number | undefined, commandLine = /^/): number[] {
  const listing = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' });
  return [...listing.matchAll(/^ *(\d+) +(\d+) +(.*)$/gm)]
    .filter(([, , parent, args = '']) => Number(parent) === pid && commandLine.test(args))
    .map(([, id]) => Number(id));
}
