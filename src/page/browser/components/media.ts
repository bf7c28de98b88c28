import { useEffect, useState } from 'preact/hooks';

/** A window of a phone: filters, comparison and settings are behind one button. */
export const narrow = '(width < 640px)';

/** Whether the window matches a media query, such as `(width < 640px)`. */
export function useMedia(query: string): boolean {
  const [isMatch, setMatch] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const read = () => setMatch(list.matches);
    read();
    list.addEventListener('change', read);
    return () => list.removeEventListener('change', read);
  }, [query]);
  return isMatch;
}
