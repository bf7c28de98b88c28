/** The slots of `total` that one organization may occupy. If there are two or more, it leaves one to others. */
export const organizationSlots = (total: number): number => Math.max(1, total - 1);
