/** Closes a file as soon as nobody works with it; it is opened again when it is needed. */
export type Close = () => Promise<void>;

/**
 * Files that nobody works with stay open for their next changes, but only as many as
 * there is memory for: DuckDB keeps a part of each until it is closed.
 */
export type IdleFiles = {
  /** From now on somebody works with it: it is not closed. */
  take(close: Close): void;
  /** Nobody does any more. */
  leave(close: Close): void;
  /** Closes those left alone the longest, where too many are open. */
  closeSurplus(): Promise<void>;
  /** Makes room for somebody who has run out of memory. */
  closeAll(): Promise<void>;
};

export function createIdleFiles(most: number): IdleFiles {
  /** In the order in which they were left. */
  const idle = new Set<Close>();

  const evictBeyond = async (count: number): Promise<void> => {
    // As they are now: what is left meanwhile is not asked for in vain.
    for (const close of [...idle]) {
      if (idle.size <= count) return;
      if (idle.delete(close)) await close();
    }
  };

  return {
    take(close) {
      idle.delete(close);
    },
    leave(close) {
      idle.add(close);
    },
    closeSurplus: () => evictBeyond(most),
    closeAll: () => evictBeyond(0),
  };
}
