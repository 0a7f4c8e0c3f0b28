// Web-fetch is an MCP server over standard input and output with the tools web.fetch, which is package
// tools/internal/webpage, and search.web, which asks the search of a LiteLLM proxy, or of anything that answers as
// that does.
//
// Its environment says where that is: LITELLM_BASE_URL, to which /v1/search is appended, LITELLM_API_KEY, which it is
// shown, and LITELLM_SEARCH_TOOL, the name of one of its search tools, where it has several. Without the first one each
// search is an upstream_failure.
//
// The tool web.fetch connects to public addresses, and to those in the networks of the flag --allow-network, which may
// be repeated.
package main
