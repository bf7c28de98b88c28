/**
 * If an element disappears while it has the focus, moves the focus to the element that
 * `data-focus-next` of one of its ancestors selects. The browser would drop the focus.
 */
export function followFocus(): void {
  let focused: Element | null = null;
  let next: string | undefined;
  document.addEventListener('focusin', ({ target }) => {
    focused = target as Element;
    next = focused.closest<HTMLElement>('[data-focus-next]')?.dataset.focusNext;
  });
  // A click beside all controls takes the focus away.
  document.addEventListener('pointerdown', () => {
    next = undefined;
  });
  new MutationObserver(() => {
    if (next === undefined || focused?.isConnected || document.activeElement !== document.body) {
      return;
    }
    document.querySelector<HTMLElement>(next)?.focus();
  }).observe(document.body, { childList: true, subtree: true });
}
