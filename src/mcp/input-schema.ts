import type { DescribedParameter } from '../http/openapi/parameters.ts';
import { commaLists, withoutWrapper } from '../http/request/parameters.ts';
import { kindArgument, type Tool } from './tools.ts';

type InputSchema = {
  readonly type: 'object';
  readonly properties: Record<string, object>;
  readonly required?: string[];
  readonly additionalProperties: false;
};

/** The JSON schema of a tool's arguments, from the parameters of its route. Lists are arrays. */
export function inputSchemaOf({ parameters, defaults, routes }: Tool): InputSchema {
  const required = parameters.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  const kinds = kindsOf(routes);
  if (kinds.length > 0) required.unshift(kindArgument);
  return {
    type: 'object',
    properties: {
      ...(kinds.length > 0 ? { [kindArgument]: { type: 'string', enum: kinds } } : {}),
      ...Object.fromEntries(
        parameters.map((parameter) => [
          parameter.name,
          {
            ...constraintsOf(parameter),
            ...defaultOf(parameter, defaults[parameter.name]),
            description: firstSentence(parameter.description),
          },
        ]),
      ),
    },
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: false,
  };
}

export const kindsOf = (routes: Tool['routes']): string[] =>
  [...routes.keys()].filter((kind) => kind !== undefined);

/** Without lengths, patterns and formats, which the error of a wrong value states in words. */
function constraintsOf(parameter: DescribedParameter): object {
  const list = commaListOf(parameter);
  if (list !== undefined) {
    const { names, max } = list;
    const isBounded = max !== undefined && max < (names?.length ?? Number.POSITIVE_INFINITY);
    return {
      type: 'array',
      items: { type: 'string', ...(names && { enum: names }) },
      ...(isBounded ? { maxItems: max } : {}),
    };
  }
  const { type, enum: values, minimum, maximum } = parameter.schema;
  if (values !== undefined) return { type, enum: values };
  if (type === 'array') return { type, items: { type: 'string' } };
  return { type, ...(maximum === undefined ? {} : { minimum, maximum }) };
}

/** The default of the tool, or that of the route. */
function defaultOf(parameter: DescribedParameter, own: string | undefined): object {
  const { field } = parameter;
  const value = own ?? parameter.schema.default ?? field.safeParse(undefined).data;
  if (value === undefined) return {};
  return { default: commaListOf(parameter) === undefined ? value : [value] };
}

/** Of a parameter with commas between its values. */
export const commaListOf = ({ field }: Pick<DescribedParameter, 'field'>) =>
  commaLists.get(withoutWrapper(field));

export const firstSentence = (text: string): string => /^.*?[.](?= |$)/.exec(text)?.[0] ?? text;
