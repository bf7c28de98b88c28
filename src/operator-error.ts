/** A failure that its message, one line, explains to whoever runs the service. */
export class OperatorError extends Error {
  override readonly name: string = 'OperatorError';
}
