// Package gen writes what a folder of tools is in the formats that others read: definitions of MCP, an OpenAPI
// document, JSON Schemas, and the page of contracts for people. All of it comes from the manifests, so nothing that it
// says can be another thing than what is called; the same manifests always give the same bytes.
//
// Start reading at [Formats].
package gen
