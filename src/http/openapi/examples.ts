/** The keywords of JSON Schema that examples depend on. */
export type JsonSchema = {
  readonly title?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly examples?: readonly unknown[];
  readonly format?: string;
  readonly pattern?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly [keyword: string]: unknown;
};

/** Examples by field name, or by resource and field name. */
const examples: Readonly<Record<string, unknown>> = {
  name: 'VIP',
  'Customer.name': 'Conceição Araújo',
  'organization.name': 'Bebê & Mamãe',
  'api_key.name': 'Power BI',
  email: 'conceicao.araujo@shop.example',
  phone: '+5511987654321',
  identification: '123.456.789-09',
  source: 'checkout',
  attributes: { 'Tamanho favorito': 'M', Pontos: 120 },
  street: 'Rua Augusta',
  number: '1500',
  city: 'São Paulo',
  state: 'SP',
  country: 'BR',
  zip_code: '01304-001',
  neighborhood: 'Consolação',
  complement: 'ap. 42',
  description: 'Bought in the last 30 days',
  color: '#2f80ed',
  scopes: ['read'],
  order_id_on_integration_platform: '4503054293285',
  order_number: '#34937',
  platform: 'shopify',
  status: 'closed',
  payment_status: 'paid',
  shipping_status: 'shipped',
  currency: 'BRL',
  code: 'VERAO10',
  value: 10,
  key: 'black-friday',
  group_by: 'utm_campaign',
  'PurchaseReport.group_by': ['month', 'utm_source'],
  coupon: 'VERAO10',
  utm_source: 'instagram',
  utm_medium: 'cpc',
  utm_campaign: 'black-friday',
  utm_content: 'video-1',
  utm_term: 'tênis',
  q: 'araújo',
  category: 'marketing',
  language: 'pt_BR',
  scheduling_type: 'scheduled',
  recipient_type: 'segment',
  trigger_event_type: 'purchase_created',
  origin: 'template',
  attributed_flow_ids: [],
  purchase_count: 3,
  customer_count: 2,
  revenue_in_cents: 44970,
  average_ticket_in_cents: 14990,
  livemode: true,
  problem: 'Postgres does not respond',
};

export function exampleOf(schema: JsonSchema, name = ''): unknown {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.properties !== undefined) {
    return Object.fromEntries(
      Object.entries(schema.properties).map(([field, of]) => {
        const own = `${schema.title ?? name}.${field}`;
        return [field, exampleOf(of, own in examples ? own : field)];
      }),
    );
  }
  if (schema.examples !== undefined) return schema.examples[0];
  if (name in examples) return examples[name];
  if (schema.pattern !== undefined) {
    return `${/^\^(\w+?)_\[/.exec(schema.pattern)?.[1] ?? 'id'}_mBxLDNpBEZ6W`;
  }
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case 'array':
      return schema.items === undefined ? [] : [exampleOf(schema.items)];
    case 'integer':
    case 'number':
      return schema.default ?? (name.endsWith('_in_cents') ? 14990 : 1);
    case 'boolean':
      return false;
    case 'string':
      if (schema.format === 'date-time') return '2026-01-31T14:05:09.123456Z';
      return 'text';
    default:
      return {};
  }
}
