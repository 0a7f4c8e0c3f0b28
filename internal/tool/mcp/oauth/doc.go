// Package oauth gets and renews the OAuth tokens with which executors reach MCP servers.
//
// An operator logs in once with [Login]. The result is a [Grant], which lies in a file beside servers.json. All
// executors with that file share one sealed entry on the bus. A [Keeper] reads the access token there, and renews it
// when it is due. Refresh tokens may be used once, so one executor renews at a time: it first writes into the entry, by
// compare-and-set, that it does. Start reading at keeper.go.
package oauth
