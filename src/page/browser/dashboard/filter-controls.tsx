import { useState } from 'preact/hooks';
import { problemAt } from '../components/failures.tsx';
import { Problem } from '../components/problem.tsx';
import { valueLabel } from '../display/dimensions.ts';
import { formatMoney } from '../display/format.ts';
import { texts } from '../language/language.ts';
import {
  dimensionBefore,
  type Filter,
  type Filters as FilterValues,
  filterNamed,
  othersOf,
  readValue,
  withoutValue,
  withValue,
} from '../view/filters.ts';
import { defaultStatus, isOnlyPaid } from '../view/view-state.ts';
import { useDashboard } from './dashboard-state.ts';
import { exampleOf, FilterForm } from './filter-form.tsx';

/** The filters as removable chips, and a form that adds one. */
export function Filters() {
  const { state, currency, currencies, problems, change } = useDashboard();
  const [isOpen, setOpen] = useState(false);
  const [refused, setRefused] = useState('');
  const remove = ({ name, values }: ChipData) => {
    const filters = values.reduce((left, one) => withoutValue(left, name, one), state.filters);
    if (name === 'status' && filters.status === undefined) {
      return change({ filters: { ...filters, status: [defaultStatus] } });
    }
    // The ranking goes back to the dimension whose filter led it on.
    const from = dimensionBefore(name === 'without' ? values : [name], state);
    return change({ filters, ...(from && { group_by: from }) });
  };
  const toggle = (isOpen: boolean) => {
    setOpen(isOpen);
    setRefused('');
  };
  const submit = (filter: Filter, text: string, isNegated: boolean) => {
    const value = readValue(filter, text, currency);
    if (value === null) {
      const { noAmount, noValue } = texts.filters;
      setRefused(filter.kind === 'money' ? noAmount(exampleOf(9990, currency)) : noValue);
      return;
    }
    toggle(false);
    change({ filters: changed(state.filters, filter, value, isNegated) });
  };
  return (
    <>
      <ul class="chips" id="chips" aria-label={texts.filters.list} data-focus-next="#add-filter">
        {chipsOf(state.filters, currencies).map((chip) => (
          <Chip
            key={`${chip.name} ${chip.values.join()}`}
            chip={chip}
            currency={currency}
            onRemove={() => remove(chip)}
          />
        ))}
      </ul>
      {isOpen ? (
        <FilterForm onSubmit={submit} onClose={() => toggle(false)} />
      ) : (
        <button type="button" class="add" id="add-filter" onClick={() => toggle(true)}>
          <span aria-hidden="true">+ </span>
          {texts.filters.add}
        </button>
      )}
      <Problem id="filter-problem" text={refused || problemAt('filters', problems)} />
    </>
  );
}

/** A value is one more of its filter. A negated one leaves the others of its set. */
function changed(filters: FilterValues, filter: Filter, value: string, isNegated: boolean) {
  const { name } = filter;
  // No user has chosen the default.
  const chosen = name === 'status' && isOnlyPaid(filters) ? { ...filters, status: [] } : filters;
  if (!isNegated) return withValue(chosen, filter, value);
  const before = chosen[name] ?? [];
  const isNarrowed = before.includes(value) && before.length > 1;
  return isNarrowed
    ? withoutValue(filters, name, value)
    : { ...filters, [name]: othersOf(filter, [value]) };
}

/** Values of a filter that one chip shows and removes. */
type ChipData = {
  readonly name: string;
  readonly values: readonly string[];
  /** Whether the chip follows another one of the same filter. */
  readonly isFurther: boolean;
  /** The values that the filter excludes, if these are fewer. */
  readonly excluded: readonly string[];
};

/** Chips of the filters that no other control shows: one for each value, or for the values that are excluded. */
export const chipsOf = (filters: FilterValues, currencies: readonly string[]): ChipData[] =>
  Object.entries(filters).flatMap(([name, values]): ChipData[] => {
    if (name === 'currency' && currencies.length > 0) return [];
    if (name === 'status' && isOnlyPaid(filters)) return [];
    const excluded = othersOf(filterNamed(name) as Filter, values);
    if (values.length > 1 && excluded.length > 0 && excluded.length < values.length) {
      return [{ name, values, excluded, isFurther: false }];
    }
    return values.map((value, index) => ({
      ...{ name, values: [value], excluded: [], isFurther: index > 0 },
    }));
  });

type ChipProperties = {
  readonly chip: ChipData;
  /** Of amounts. */
  readonly currency: string | null;
  onRemove(): void;
};

function Chip({ chip: { name, values, excluded, isFurther }, currency, onRemove }: ChipProperties) {
  const filter = filterNamed(name);
  const label = filter?.label ?? name;
  const [value = ''] = values;
  const isAmount = filter?.kind === 'money' && /^\d+$/.test(value);
  const listed = (list: readonly string[]) => list.map((one) => valueLabel(name, one)).join(', ');
  const shown = isAmount ? formatMoney(value, currency) : listed(values);
  const text = excluded.length > 0 ? texts.filters.not(listed(excluded)) : shown;
  return (
    <li>
      <span class="chip-name">{isFurther ? texts.filters.or : label}</span>
      <span class="chip-value" title={shown}>
        {text}
      </span>
      <button type="button" aria-label={texts.filters.remove(label, text)} onClick={onRemove}>
        ×
      </button>
    </li>
  );
}
