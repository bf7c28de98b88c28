import { useState } from 'preact/hooks';
import { announce } from '../components/announce.ts';
import { problemAt } from '../components/failures.tsx';
import { Problem } from '../components/problem.tsx';
import { valueLabel } from '../display/dimensions.ts';
import { formatMoney } from '../display/format.ts';
import { texts } from '../language/language.ts';
import {
  canExclude,
  excludedOf,
  exclusion,
  type Filter,
  type Filters as FilterValues,
  filters,
  hasFilter,
  negated,
  readValue,
  withoutFilter,
  withoutValue,
  withValue,
  withValues,
} from '../view/filters.ts';
import { defaultStatus, isOnlyPaid } from '../view/view-state.ts';
import { useDashboard } from './dashboard-state.ts';
import { exampleOf, FilterForm } from './filter-form.tsx';

/** The filters as removable chips, and a form that adds one. */
export function Filters() {
  const { state, currency, currencies, problems, change } = useDashboard();
  const [isOpen, setOpen] = useState(false);
  const [refused, setRefused] = useState('');
  const remove = ({ filter: { name }, value, isExcluded }: ChipData) => {
    const filters = withoutValue(state.filters, name, value, isExcluded);
    const isDefault = name === 'status' && !hasFilter(filters, name);
    change({ filters: isDefault ? withValues(filters, name, [defaultStatus]) : filters });
  };
  const negate = ({ filter: { name }, isExcluded }: ChipData, text: string) => {
    change({ filters: negated(state.filters, name, !isExcluded) });
    announce(text);
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
    const { name } = filter;
    // No user has chosen the default.
    const isDefault = name === 'status' && isOnlyPaid(state.filters);
    const before = isDefault ? withoutFilter(state.filters, name) : state.filters;
    change({ filters: withValue(before, filter, value, isNegated) });
  };
  return (
    <>
      <ul class="chips" id="chips" aria-label={texts.filters.list} data-focus-next="#add-filter">
        {chipsOf(state.filters, currencies).map((chip) => (
          <Chip
            key={chip.key}
            chip={chip}
            currency={currency}
            onNegate={(text) => negate(chip, text)}
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

/** A value of a filter. */
type ChipData = {
  /** The same once the condition is turned, whose button so keeps the focus. */
  readonly key: string;
  readonly filter: Filter;
  readonly value: string;
  readonly isExcluded: boolean;
  /** Whether the chip follows another one of the same filter and condition. */
  readonly isFurther: boolean;
};

/** Chips of the filters that no other control shows. */
export const chipsOf = (values: FilterValues, currencies: readonly string[]): ChipData[] =>
  filters.flatMap((filter) => {
    const { name } = filter;
    const isElsewhere =
      name === 'currency' ? currencies.length > 0 : name === 'status' && isOnlyPaid(values);
    const chips = (shown: readonly string[], isExcluded: boolean) =>
      shown.map((value, index) => {
        // A link may both select and exclude a value.
        const isSecond = isExcluded && values[name]?.includes(value);
        const key = `${name}${isSecond ? ` ${exclusion}` : ''} ${value}`;
        return { key, filter, value, isExcluded, isFurther: index > 0 };
      });
    return [
      ...chips(isElsewhere ? [] : (values[name] ?? []), false),
      ...chips(excludedOf(values, name), true),
    ];
  });

type ChipProperties = {
  readonly chip: ChipData;
  /** Of amounts. */
  readonly currency: string | null;
  onNegate(text: string): void;
  onRemove(): void;
};

function Chip({ chip, currency, onNegate, onRemove }: ChipProperties) {
  const { filter, value, isExcluded, isFurther } = chip;
  const { name, label } = filter;
  const { is, isNot, or, nor } = texts.filters;
  const isAmount = filter.kind === 'money' && /^\d+$/.test(value);
  const text = isAmount ? formatMoney(value, currency) : valueLabel(name, value);
  const [operator, other] = isExcluded ? [isNot, is] : [is, isNot];
  return (
    <li>
      <span class="chip-name">{isFurther ? (isExcluded ? nor : or) : label}</span>
      {canExclude(filter) && !isFurther && (
        <button
          type="button"
          class="operator"
          aria-label={texts.filters.negate(label, operator, text, other)}
          onClick={() => onNegate(`${label} ${other} ${text}`)}
        >
          {operator}
        </button>
      )}
      <span class="chip-value" title={text}>
        {text}
      </span>
      <button
        type="button"
        aria-label={texts.filters.remove(label, isExcluded ? `${isNot} ${text}` : text)}
        onClick={onRemove}
      >
        ×
      </button>
    </li>
  );
}
