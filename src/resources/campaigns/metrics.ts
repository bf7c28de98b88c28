const countMessages = 'Metrics count messages, not purchases.';

/** Descriptions of the routes of campaigns with metrics. */
export const campaignDescriptions = {
  list:
    `${countMessages} Revenue of campaigns is a report by \`utm_campaign\`, whose texts need not be names of ` +
    'campaigns.',
  record: countMessages,
};
