import { describe, expect, it } from 'vitest';
import { readSettings } from '../src/settings.ts';

describe('PUBLIC_APP_URL', () => {
  it('is an http or https address, with or without a path, kept without its last slash', () => {
    const read = (address: string) => readSettings({ PUBLIC_APP_URL: address }).publicAppUrl;
    expect(readSettings({}).publicAppUrl).toBe('http://127.0.0.1:3000/app');
    expect(read('https://app.example.com')).toBe('https://app.example.com');
    expect(read('https://example.com/crm/app/')).toBe('https://example.com/crm/app');
    expect(read('http://[::1]:8080/')).toBe('http://[::1]:8080');
  });

  it.each([
    'app.example.com',
    '/app',
    'ftp://example.com',
    'javascript:alert(1)',
    'https://',
    'https://example.com/?a=1',
    'https://example.com/#a',
    'https://exa mple.com',
  ])('refuses %s, to which no path can be added', (address) => {
    expect(() => readSettings({ PUBLIC_APP_URL: address })).toThrow(/^PUBLIC_APP_URL is /);
  });
});
