import type { DescribedParameter } from '../http/openapi/parameters.ts';
import { listedNames } from '../http/request/parameters.ts';
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
      ...(kinds.length > 0 ? { [kindArgument]: { enum: kinds } } : {}),
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

/** Without lengths and patterns, which the error of a wrong value states in words. */
function constraintsOf(parameter: DescribedParameter): object {
  const list = listOf(parameter);
  if (list !== undefined) {
    return {
      type: 'array',
      items: { enum: list.names },
      ...(list.max === undefined || list.max >= list.names.length ? {} : { maxItems: list.max }),
    };
  }
  const { type, enum: values, format, minimum, maximum } = parameter.schema;
  if (values !== undefined) return { enum: values };
  return {
    type,
    ...(format === 'date-time' ? { format } : {}),
    ...(maximum === undefined ? {} : { minimum, maximum }),
  };
}

/** The default of the tool, or that of the route. */
function defaultOf(parameter: DescribedParameter, own: string | undefined): object {
  const { field } = parameter;
  const value = own ?? parameter.schema.default ?? field.safeParse(undefined).data;
  if (value === undefined) return {};
  return { default: listOf(parameter) === undefined ? value : [value] };
}

/** The names of a parameter that is a list. */
export function listOf({ field }: Pick<DescribedParameter, 'field'>) {
  const { innerType } = field.def as { innerType?: typeof field };
  return listedNames.get(field) ?? (innerType && listedNames.get(innerType));
}

export const firstSentence = (text: string): string => /^.*?[.](?= |$)/.exec(text)?.[0] ?? text;
