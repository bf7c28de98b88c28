/** The known name with the fewest edits, if they are few enough for a misspelling. */
export function nearestName(name: string, known: Iterable<string>): string | null {
  let nearest: string | null = null;
  let fewest = Math.max(2, Math.floor(name.length / 4));
  for (const candidate of known) {
    const edits = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (edits > fewest || (edits === fewest && nearest !== null)) continue;
    nearest = candidate;
    fewest = edits;
  }
  return nearest;
}

/** The Levenshtein distance. */
function editDistance(one: string, other: string): number {
  let previous = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (let row = 1; row <= one.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= other.length; column += 1) {
      const isSame = one[row - 1] === other[column - 1];
      const replaced = (previous[column - 1] as number) + (isSame ? 0 : 1);
      const added = (current[column - 1] as number) + 1;
      current.push(Math.min(replaced, added, (previous[column] as number) + 1));
    }
    previous = current;
  }
  return previous[other.length] as number;
}
