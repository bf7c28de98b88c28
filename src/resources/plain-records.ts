import type { ResourceRoutes } from '../http/route.ts';
import { byCreation, byUpdate } from '../postgres/lists/keyset-list.ts';
import {
  choice,
  defineRecord,
  flag,
  htmlUrl,
  instant,
  integer,
  optional,
  text,
} from './record/record.ts';
import { listRoute, recordRoute } from './record/record-routes.ts';
import { listOfObjects, objectOf } from './stored-json.ts';

// Records whose lists have no filters.

/** Section 2.8. */
const tag = defineRecord('Tag', 'tag', 'tags', {
  name: optional(text),
  color: optional(text),
  created_at: instant,
});

/** Section 2.9. */
const attribute = defineRecord('Attribute', 'attribute', 'attributes', {
  name: optional(text),
  type: optional(text),
  created_at: instant,
  updated_at: instant,
  description: optional(text),
});

/** Section 2.10. */
const flow = defineRecord('Flow', 'flow', 'flows', {
  status: optional(text),
  created_at: instant,
  updated_at: instant,
  html_url: htmlUrl('flow'),
  name: optional(text),
  description: optional(text),
  trigger_event_type: optional(text),
  origin: optional(text),
  run_count: optional(integer),
});

/** Section 2.11. */
const emailCampaign = defineRecord('EmailCampaign', 'email_campaign', 'email_campaigns', {
  status: optional(text),
  scheduling_type: optional(text),
  created_at: instant,
  updated_at: instant,
  html_url: htmlUrl('email_campaign'),
  name: optional(text),
  scheduled_for: optional(instant),
  sent_at: optional(instant),
  metrics: optional(
    objectOf({ sent: 'integer', delivered: 'integer', opened: 'integer', clicked: 'integer' }),
  ),
});

/** Section 2.12. */
const templateCampaign = defineRecord(
  'TemplateCampaign',
  'template_campaign',
  'template_campaigns',
  {
    status: optional(text),
    channel: optional(choice(['whatsapp', 'sms'])),
    is_official: optional(flag),
    scheduling_type: optional(text),
    recipient_type: optional(text),
    created_at: instant,
    updated_at: instant,
    name: optional(text),
    scheduled_for: optional(instant),
    sent_at: optional(instant),
    templates: optional(
      listOfObjects({
        id: 'text',
        order: 'integer',
        weight: 'integer',
        name: 'text',
        category: 'text',
        language: 'text',
      }),
    ),
    metrics: optional(
      objectOf({
        recipients: 'integer',
        sent: 'integer',
        delivered: 'integer',
        read: 'integer',
        failed: 'integer',
      }),
    ),
    html_url: htmlUrl('template_campaign'),
  },
);

const customersOfTag = 'The customers of a tag are the list of customers with `tag_id`.';
const runsOfFlow = '`run_count` counts runs, not customers or purchases.';
const countMessages = 'Metrics count messages, not purchases.';
const campaignList =
  `${countMessages} Revenue of campaigns is a report by \`utm_campaign\`, whose texts need not be names of ` +
  'campaigns.';

export const plainRecords: ResourceRoutes = (services) => [
  listRoute(services, tag, byCreation, {
    url: '/tags',
    summary: 'Tags, newest first',
    description: `Labels of customers. ${customersOfTag}`,
  }),
  recordRoute(services, tag, { url: '/tags', summary: 'One tag', description: customersOfTag }),
  listRoute(services, attribute, byCreation, {
    url: '/attributes',
    summary: "Definitions of the customers' custom attributes, newest first",
    description: 'Definitions only. The values are in `attributes` of a single customer.',
  }),
  listRoute(services, flow, byUpdate, {
    url: '/flows',
    summary: 'Automation flows, most recently updated first',
    description: runsOfFlow,
  }),
  recordRoute(services, flow, {
    url: '/flows',
    summary: 'One automation flow',
    description: runsOfFlow,
  }),
  listRoute(services, emailCampaign, byUpdate, {
    url: '/email-campaigns',
    summary: 'Email campaigns, most recently updated first',
    description: campaignList,
  }),
  recordRoute(services, emailCampaign, {
    url: '/email-campaigns',
    summary: 'One email campaign',
    description: countMessages,
  }),
  // An addition: the specification has only the single resource.
  listRoute(services, templateCampaign, byUpdate, {
    url: '/template-campaigns',
    isAddition: true,
    summary: 'WhatsApp and SMS campaigns, most recently updated first',
    description: campaignList,
  }),
  recordRoute(services, templateCampaign, {
    url: '/template-campaigns',
    summary: 'One WhatsApp or SMS campaign',
    description: countMessages,
  }),
];
