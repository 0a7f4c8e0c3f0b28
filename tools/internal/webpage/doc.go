// Package webpage fetches one web page and returns its readable text: the tool web.fetch, as the program that it is and
// as a tool of the MCP server web-fetch.
//
// # Fetching
//
// Only http and https, no user name or password in the URL, at most maxRedirects redirects, at most
// MaxBody bytes after decompression. No cookies, no proxy, no script is run. It connects to public addresses, and to
// those in networks that the operator allows, also after a redirect: package internal/tool/address decides.
//
// # Reading
//
// HTML and XHTML, decoded by byte order mark, Content-Type, meta element, or as UTF-8 if it is
// valid. go-readability finds the article and its title, byline, date and language. Where it finds
// none, the text of the whole page is returned with a warning. Any other text type is returned as
// it is. Everything else, such as a PDF, is parse_failed.
//
// # What can go wrong
//
// fetch_failed: the page did not come, and may come next time (429, 5xx, a lost connection, DNS).
// not_fetchable: it will not come as long as the server answers so: a status such as 404 or 403, or a
// redirect that is not followed, or a host without an address that it may connect to. The source contract
// knows one fetch_failed for both; its class is R-UPSTREAM, which is for what passes and is retried, so
// what does not pass has a name and a class of its own. Of both details.reason says why, and
// details.upstream_status is the answer of the server, if it was one that is no page; http_status, which
// would be the better name, is that of the manifest.
// parse_failed: it came and cannot be read; details.reason says why. timeout: the deadline passed.
// invalid_url: nothing was asked for.
//
// No message holds the URL, because URLs hold secrets.
//
// # raw_html
//
// The schema of the source contract demands raw_html in every output: its "if" is true also when
// the member is absent. So it is always there, and empty unless include_raw_html is set.
//
// Start reading at webpage.go; fetch.go gets the page, decode.go makes text of its bytes, article.go finds the article.
package webpage
