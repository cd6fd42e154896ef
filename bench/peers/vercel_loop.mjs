// Part A, Vercel's ai: `generateText` or `streamText` under the contract of loop_contract.py.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const env = process.env;
const RUNS = +env.PERF_RUNS || 1;
const CONC = +env.PERF_CONC || 1;
const WARM = +(env.PERF_WARM ?? 1);
const STREAM = env.PERF_STREAM === '1';

globalThis.AI_SDK_LOG_WARNINGS = false;

const provider = createOpenAICompatible({ name: 'mock', baseURL: env.PERF_URL, apiKey: 'x' });
const model = provider('mock');
const add = tool({
  description: 'Add two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => a + b,
});

async function finalText() {
  const options = { model, prompt: 'go', tools: { add }, stopWhen: stepCountIs(100000) };
  if (!STREAM) return (await generateText(options)).text;
  const run = streamText(options);
  for await (const _ of run.fullStream);
  return await run.text;
}

async function one() {
  const text = await finalText();
  if (text !== 'Done.') throw new Error('bad: ' + text);
}

for (let i = 0; i < WARM; i++) await one();

const wallStart = performance.now();
const cpuStart = process.cpuUsage();
let left = RUNS;
const worker = async () => {
  while (left-- > 0) await one();
};
await Promise.all(Array.from({ length: CONC }, worker));
const used = process.cpuUsage(cpuStart);
const wall = (performance.now() - wallStart) / 1e3;
const cpu = (used.user + used.system) / 1e6;
console.log(JSON.stringify({ wall, cpu, runs: RUNS }));
process.exit(0);
