import { copyLine } from './copy-text.ts';
import { instantText } from './instants.ts';
import type { OrganizationProfile } from './organization-profile.ts';

export const COPY_FLOWS =
  'copy flows (id, organization_id, created_at, updated_at, status, name, description, trigger_event_type, origin, run_count) from stdin';

const FLOWS = [
  ['Boas-vindas', 'customer_created', 'Apresenta a loja\ne entrega o primeiro cupom'],
  ['Carrinho abandonado', 'cart_abandoned', 'Três lembretes em 48 horas'],
  ['Pix pendente', 'order_created', 'Lembra do pagamento antes de expirar'],
  ['Boleto a vencer', 'order_created', null],
  ['Pedido enviado', 'order_shipped', 'Código de rastreio'],
  ['Pós-compra: avaliação', 'order_delivered', 'Pede avaliação após 7 dias'],
  ['Recompra em 60 dias', 'order_paid', null],
  ['Aniversário', 'birthday', 'Cupom de aniversário'],
  ['Reativação de inativos', 'segment_entered', 'Clientes sem compra há um ano'],
  ['VIP: acesso antecipado', 'segment_entered', null],
  ['Navegação abandonada', 'product_viewed', null],
  ['Voltou ao estoque', 'product_back_in_stock', 'Avisa quem pediu'],
  // Only just begun.
  [null, null, null],
] as const;

export const FLOW_COUNT = FLOWS.length;

export function* flowLines(
  profile: OrganizationProfile,
  customerCount: number,
  organizationId: string,
  firstId: number,
): Generator<string> {
  const random = profile.random('flows');
  const { start, until } = profile.calendar;
  for (const [index, [name, trigger, description]] of FLOWS.entries()) {
    const createdAt = Math.floor(start + random.fraction() * 0.8 * (until - start));
    const updatedAt = Math.floor(createdAt + random.fraction() * (until - createdAt));
    const isBare = name === null;
    const status = index < 3 ? 'active' : random.pick(['active', 'active', 'paused', 'draft']);
    const runs = Math.floor((customerCount * random.between(0.2, 2.5)) / (index + 1));
    yield copyLine([
      firstId + index,
      organizationId,
      instantText(createdAt),
      instantText(updatedAt),
      isBare ? null : status,
      name,
      description,
      trigger,
      isBare ? null : random.pick(['template', 'template', 'scratch', 'assistant']),
      isBare ? null : status === 'draft' ? 0 : runs,
    ]);
  }
}
