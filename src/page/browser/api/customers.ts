import { get, pathOf } from './api.ts';
import type { Customer, Page } from './responses.ts';

const maxFound = 8;
/** Fewer digits are a part of a phone number. */
const minPhoneDigits = 8;

/** The customers whose name, email or phone has a text. */
export async function findCustomers(text: string, signal: AbortSignal): Promise<Page<Customer>> {
  const search = async (parameters: Readonly<Record<string, string>>) => {
    const path = pathOf('/customers', { ...parameters, limit: String(maxFound) });
    return (await get<Page<Customer>>(path, signal)).body;
  };
  const digits = text.replace(/\D/g, '');
  if (digits.length < minPhoneDigits || /[^\d\s()+./-]/.test(text)) return search({ q: text });
  // The whole number, however it is written, or a part of one.
  const found = await search({ phone: text });
  return found.data.length > 0 ? found : search({ q: digits });
}

export const nameOf = ({ name, email, phone, id }: Customer): string =>
  name ?? email ?? phone ?? id;
