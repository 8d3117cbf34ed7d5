// Print what the model catalogs of @ai-sdk/openai and @ai-sdk/anthropic state about language models, as JSON.
const wanted = { openai: 'openaiModelCatalog', anthropic: 'anthropicModelCatalog' };
const found = {};
for (const [provider, name] of Object.entries(wanted)) {
  const catalog = (await import(`@ai-sdk/${provider}/internal`))[name];
  const models = Object.entries(catalog).map(([id, model]) => [id, model.capabilities?.language]);
  found[provider] = Object.fromEntries(models.filter(([, language]) => language));
}
process.stdout.write(JSON.stringify(found));
