/** The tables that hold demo data. */
export const seededTables = [
  'organizations',
  'customers',
  'segments',
  'segment_customers',
  'tags',
  'customer_tags',
  'attributes',
  'flows',
  'email_campaigns',
  'template_campaigns',
  'purchases',
] as const;
