import type { Row } from './copy-rows.ts';
import type { RandomSource } from './random-source.ts';
import { drawPeriod, type Shop } from './shop.ts';

type Text = string | null;
type DrawValue = (random: RandomSource) => string | number | boolean;

/** Name, type, description, and a customer's value. */
const attributes: readonly (readonly [Text, Text, Text, DrawValue?])[] = [
  ['nascimento', 'date', 'Data de nascimento', drawBirthday],
  ['genero', 'text', 'Gênero', (random) => random.pick(['feminino', 'masculino', 'outro'])],
  ['tamanho', 'text', null, (random) => random.pick(['PP', 'P', 'M', 'M', 'G', 'GG'])],
  ['pontos', 'number', 'Pontos', (random) => Math.floor(Math.exp(random.between(0, 8)))],
  ['nota_nps', 'number', 'De 0 a 10', (random) => random.pick([10, 10, 9, 9, 8, 7, 5, 0])],
  ['altura_em_metros', 'number', null, (random) => (150 + random.integer(50)) / 100],
  ['atacado', 'boolean', 'Compra no atacado', (random) => random.chance(0.06)],
  [null, null, null],
];

/** Name, trigger and description. */
const flows: readonly (readonly [Text, Text, Text])[] = [
  ['Boas-vindas', 'customer_created', 'Apresenta a loja\ne entrega o primeiro cupom'],
  ['Carrinho abandonado', 'cart_abandoned', 'Três lembretes em 48 horas'],
  ['Pix pendente', 'order_created', 'Lembra do pagamento antes de expirar'],
  ['Pós-compra: avaliação', 'order_delivered', 'Pede avaliação após 7 dias'],
  ['Aniversário', 'birthday', null],
  ['Reativação de inativos', 'segment_entered', 'Clientes sem compra há um ano'],
  [null, null, null],
];

export function attributeRows(shop: Shop): Row[] {
  const random = shop.random('attributes');
  return attributes.map(([name, type, description]) => {
    return { name, type, description, ...drawPeriod(shop, random) };
  });
}

/** A customer's values. */
export function drawAttributes(random: RandomSource): object {
  const values: Record<string, ReturnType<DrawValue>> = {};
  for (const [name, , , drawValue] of attributes) {
    if (name && drawValue && random.chance(0.45)) values[name] = drawValue(random);
  }
  return values;
}

function drawBirthday(random: RandomSource): string {
  return new Date(random.between(-6e11, 11e11)).toISOString().slice(0, 10);
}

export function flowRows(shop: Shop, customers: number): Row[] {
  const random = shop.random('flows');
  return flows.map(([name, trigger_event_type, description], index) => ({
    name,
    description,
    trigger_event_type,
    status: name && (index < 3 ? 'active' : random.pick(['active', 'paused', 'draft'])),
    origin: name && random.pick(['template', 'template', 'scratch']),
    run_count: name && Math.floor((customers * random.between(0.2, 2.5)) / (index + 1)),
    ...drawPeriod(shop, random),
  }));
}
