/** Writes memory until so many milliseconds have passed. */
const memory = new Float64Array(4_000_000);
const endsAt = performance.now() + Number(process.argv[2]);
while (performance.now() < endsAt) {
  for (let index = 0; index < memory.length; index += 8) memory[index] = endsAt;
}
