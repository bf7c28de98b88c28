import { Select } from '../components/controls.tsx';
import { texts } from '../language/language.ts';
import { useDashboard } from './dashboard-state.ts';

const all = { value: '', label: texts.currencies.all };

/** Of a shop with several currencies: whose purchases are shown, since amounts of several have no sum. */
export function CurrencyChoice() {
  const { state, currencies, change } = useDashboard();
  const { currency: [currency = ''] = [], ...others } = state.filters;
  if (currencies.length === 0) return null;
  const isKnown = currency === '' || currencies.includes(currency);
  const values = isKnown ? currencies : [currency, ...currencies];
  return (
    <label for="currency">
      <span class="visually-hidden">{texts.dimensions.currency}</span>
      <Select
        id="currency"
        value={currency}
        options={[...values.map((value) => ({ value })), all]}
        onSelect={(value) =>
          change(
            value === ''
              ? { currencies: 'all', filters: others }
              : { filters: { ...others, currency: [value] } },
          )
        }
      />
    </label>
  );
}
