// Package gen generates descriptions of a folder of tools in other formats: MCP tool definitions, an OpenAPI document,
// JSON Schemas, and a page for people. It uses only the manifests, so the descriptions agree with the tools. The same
// manifests always give the same bytes.
//
// Start reading at [Formats].
package gen
