/** The cells of a table: a row on each line, with `|` between cells. Lines that begin with # are comments. */
export const cellsOf = (table: string): string[][] =>
  table
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.split(/ +\| +/));
