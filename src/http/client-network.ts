import ipaddr from 'ipaddr.js';

/**
 * What limits of an address count: an IPv4 address, or the /64 network of an IPv6 address, whose
 * addresses one client can all use. Returns other texts unchanged.
 */
export function clientNetwork(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  // Maps ::ffff:192.0.2.1 to 192.0.2.1.
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}
