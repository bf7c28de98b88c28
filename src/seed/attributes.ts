import { copyLine } from './copy-text.ts';
import { instantText, MICROS_PER_DAY } from './instants.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import type { RandomSource } from './random-source.ts';

type AttributeValue = string | number | boolean;

/** The definition and the values that customers carry under its name: stated together. */
export type AttributeDefinition = {
  name: string;
  type: 'text' | 'number' | 'boolean' | 'date';
  description: string | null;
  drawValue(random: RandomSource): AttributeValue;
};

export const COPY_ATTRIBUTES =
  'copy attributes (id, organization_id, name, type, description, created_at, updated_at) from stdin';

const DEFINITIONS: readonly AttributeDefinition[] = [
  {
    name: 'data_nascimento',
    type: 'date',
    description: 'Data de nascimento',
    drawValue: (random) => drawDate(1950, 56, random),
  },
  {
    name: 'genero',
    type: 'text',
    description: 'Gênero informado no cadastro',
    drawValue: (random) => random.pick(['feminino', 'feminino', 'masculino', 'não informado']),
  },
  {
    name: 'tamanho',
    type: 'text',
    description: null,
    drawValue: (random) => random.pick(['PP', 'P', 'M', 'M', 'G', 'GG']),
  },
  {
    name: 'pontos_fidelidade',
    type: 'number',
    description: 'Saldo de pontos do programa de fidelidade',
    drawValue: (random) => Math.floor(Math.exp(random.between(0, 8))),
  },
  {
    name: 'nota_nps',
    type: 'number',
    description: 'Última resposta da pesquisa\nde 0 a 10',
    drawValue: (random) => random.pick([10, 10, 9, 9, 8, 7, 5, 0]),
  },
  {
    name: 'altura_em_metros',
    type: 'number',
    description: null,
    drawValue: (random) => Math.round(random.between(150, 200)) / 100,
  },
  {
    name: 'cliente_atacado',
    type: 'boolean',
    description: 'Compra no atacado',
    drawValue: (random) => random.chance(0.06),
  },
  {
    name: 'aceita_whatsapp',
    type: 'boolean',
    description: 'Aceita receber mensagens no WhatsApp',
    drawValue: (random) => random.chance(0.7),
  },
  {
    name: 'estilo_favorito',
    type: 'text',
    description: 'Respondido no quiz',
    drawValue: (random) => random.pick(['clássico', 'básico', 'romântico', 'esportivo', 'boêmio']),
  },
  {
    name: 'data_casamento',
    type: 'date',
    description: 'Aniversário de casamento',
    drawValue: (random) => drawDate(1980, 40, random),
  },
];

/** One definition more than are drawn: begun, but without a name and a type. */
export const attributeCount = (definitions: readonly AttributeDefinition[]): number =>
  definitions.length + 1;

/** An organization defines some of them, in an order of its own. */
export function drawAttributeDefinitions(profile: OrganizationProfile): AttributeDefinition[] {
  const random = profile.random('attribute definitions');
  const shift = random.integer(DEFINITIONS.length);
  const count = 5 + random.integer(DEFINITIONS.length - 5);
  return [...DEFINITIONS.slice(shift), ...DEFINITIONS.slice(0, shift)].slice(0, count);
}

/** The object of a customer's `attributes`, null for customers that nobody asked. */
export function drawAttributeValues(
  definitions: readonly AttributeDefinition[],
  random: RandomSource,
): Record<string, AttributeValue> | null {
  if (random.chance(0.35)) return null;
  const values: Record<string, AttributeValue> = {};
  for (const { name, drawValue } of definitions) {
    if (random.chance(0.45)) values[name] = drawValue(random);
  }
  return values;
}

export function* attributeLines(
  profile: OrganizationProfile,
  definitions: readonly AttributeDefinition[],
  organizationId: string,
  firstId: number,
): Generator<string> {
  const random = profile.random('attribute rows');
  const { start, until } = profile.calendar;
  const unfinished = { name: null, type: null, description: null };
  for (const [index, { name, type, description }] of [...definitions, unfinished].entries()) {
    const createdAt = Math.floor(start + random.fraction() * 0.5 * (until - start));
    const updatedAt = Math.min(until, createdAt + random.integer(90) * MICROS_PER_DAY);
    yield copyLine([
      firstId + index,
      organizationId,
      name,
      type,
      description,
      instantText(createdAt),
      instantText(updatedAt),
    ]);
  }
}

function drawDate(firstYear: number, years: number, random: RandomSource): string {
  const month = twoDigits(1 + random.integer(12));
  return `${firstYear + random.integer(years)}-${month}-${twoDigits(1 + random.integer(28))}`;
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}
