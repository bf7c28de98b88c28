import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { minorDigits } from '../../../domain/currency.ts';
import { decimalOf } from '../../../domain/decimal.ts';
import { get } from '../api/api.ts';
import type { Report } from '../api/responses.ts';
import { Select } from '../components/controls.tsx';
import { valueLabel } from '../display/dimensions.ts';
import { decimalMark, texts } from '../language/language.ts';
import { canExclude, type Filter, filterNamed, filters, hasFilter } from '../view/filters.ts';
import { suggestionsPath } from '../view/requests.ts';
import { useDashboard } from './dashboard-state.ts';

type FilterFormProperties = {
  onSubmit(filter: Filter, text: string, isNegated: boolean): void;
  onClose(): void;
};

const operators = [
  { value: 'is', label: texts.filters.is },
  { value: 'not', label: texts.filters.isNot },
];

export function FilterForm({ onSubmit, onClose }: FilterFormProperties) {
  const { state } = useDashboard();
  const unused = filters.find(({ name }) => !hasFilter(state.filters, name));
  const [filter, setFilter] = useState(unused ?? (filters[0] as Filter));
  const [operator, setOperator] = useState('is');
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector('select')?.focus(), []);
  const canNegate = canExclude(filter);
  const submit = (event: Event) => {
    event.preventDefault();
    const input = form.current?.querySelector<HTMLInputElement>('#filter-input');
    input?.focus();
    onSubmit(filter, input?.value ?? '', canNegate && operator === 'not');
  };
  return (
    <form
      ref={form}
      id="filter-form"
      class="filter-form"
      noValidate
      data-focus-next="#add-filter"
      onSubmit={submit}
      onKeyDown={({ key }) => key === 'Escape' && onClose()}
    >
      <label class="visually-hidden" for="filter-name">
        {texts.filters.name}
      </label>
      <Select
        id="filter-name"
        value={filter.name}
        options={filters.map(({ name, label }) => ({ value: name, label }))}
        onSelect={(name) => setFilter(filterNamed(name) as Filter)}
      />
      {canNegate && (
        <label for="filter-operator">
          <span class="visually-hidden">{texts.filters.operator}</span>
          <Select
            id="filter-operator"
            value={operator}
            options={operators}
            onSelect={setOperator}
          />
        </label>
      )}
      <label class="visually-hidden" for="filter-input">
        {texts.filters.value}
      </label>
      <FilterInput key={filter.name} filter={filter} />
      <button type="submit" class="primary">
        {texts.filters.apply}
      </button>
      <button type="button" class="quiet" onClick={onClose}>
        {texts.filters.cancel}
      </button>
      {canNegate && operator === 'not' && <p class="hint">{texts.filters.missing}</p>}
    </form>
  );
}

/** An amount as a user writes it. */
export const exampleOf = (amount: number, currency: string | null): string =>
  decimalOf(amount, minorDigits(currency)).replace('.', decimalMark);

function FilterInput({ filter }: { readonly filter: Filter }) {
  const { state, currency } = useDashboard();
  const [value = ''] = state.filters[filter.name] ?? [];
  const attributes = { id: 'filter-input', autocomplete: 'off', spellcheck: false } as const;
  switch (filter.kind) {
    case 'choice':
      return <Choice name={filter.name} known={filter.values} />;
    case 'fixed':
      return (
        <select id="filter-input">
          {filter.values.map((one) => (
            <option key={one} value={one} selected={one === value}>
              {valueLabel(filter.name, one)}
            </option>
          ))}
        </select>
      );
    case 'money':
      return <input {...attributes} inputMode="decimal" placeholder={exampleOf(0, currency)} />;
    case 'text':
      return <input {...attributes} defaultValue={value} placeholder={filter.example} />;
    case 'label':
      return (
        <>
          <input
            {...attributes}
            maxLength={256}
            placeholder={texts.filters.exact}
            list="filter-suggestions"
          />
          <Suggestions name={filter.name} />
        </>
      );
  }
}

/** The values of a filter that purchases of the period have, largest first. Null until they are known. */
function useOccurring(name: string): readonly string[] | null {
  const { state } = useDashboard();
  const [values, setValues] = useState<readonly string[] | null>(null);
  useEffect(() => {
    get<Report>(suggestionsPath(state, name)).then(
      ({ body }) => setValues(body.rows.flatMap((row) => String(row[name] ?? '') || [])),
      // The user still can choose or enter a value.
      () => {},
    );
  }, []);
  return values;
}

type ChoiceProperties = { readonly name: string; readonly known: readonly string[] };

function Choice({ name, known }: ChoiceProperties) {
  const selected = useDashboard().state.filters[name] ?? [];
  const occurring = useOccurring(name) ?? [];
  const values = occurring.length > 0 ? occurring : known;
  const offered = [...new Set([...selected, ...values])];
  return (
    <select id="filter-input" data-occurring={occurring.length}>
      {offered.map((one) => (
        <option key={one} value={one} selected={one === selected[0]}>
          {valueLabel(name, one)}
        </option>
      ))}
    </select>
  );
}

function Suggestions({ name }: { readonly name: string }) {
  return (
    <datalist id="filter-suggestions">
      {useOccurring(name)?.map((value) => (
        <option key={value} value={value} />
      ))}
    </datalist>
  );
}
