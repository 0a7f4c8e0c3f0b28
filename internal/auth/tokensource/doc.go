// Package tokensource holds the token of a process, and keeps it good: it is read from a file, shown to the server and
// to dispatchers, renewed before it ends, and written back, so that the next process that uses the file finds a token
// that may still be renewed. Start reading at bearer.go.
package tokensource
