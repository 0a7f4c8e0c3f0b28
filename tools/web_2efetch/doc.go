// Web-fetch is the tool web.fetch: it fetches one web page and returns its readable text.
//
// # Fetching
//
// Only http and https, no user name or password in the URL, at most maxRedirects redirects, at most
// maxBody bytes after decompression. No cookies, no proxy, no script is run. Which hosts may be
// reached is not decided here: that is the business of the sandbox around the tool.
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
// fetch_failed: the page did not come. details.reason says why, details.http_status is the answer
// of the server, if there was one, and details.retryable is false where trying again is pointless
// (a missing page, a redirect to another scheme), although the class of the code is retryable.
// parse_failed: it came and cannot be read; details.reason says why. timeout: the deadline passed.
// invalid_url: nothing was asked for.
//
// No message holds the URL, because URLs hold secrets.
//
// # raw_html
//
// The schema of the source contract demands raw_html in every output: its "if" is true also when
// the member is absent. So it is always there, and empty unless include_raw_html is set.
package main
