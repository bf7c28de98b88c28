/** The API key, which lives as long as the tab. It is never part of a URL. */

const name = 'api-key';

export const readKey = (): string | null => sessionStorage.getItem(name);
export const keepKey = (key: string): void => sessionStorage.setItem(name, key);
export const forgetKey = (): void => sessionStorage.removeItem(name);

/** Whether a header can contain the text. */
export const isPossibleKey = (text: string): boolean => /^[\x21-\x7e]{1,512}$/.test(text);
