// Package link connects a process to a bus, with or without a token.
//
// A [Link] is such a connection with the clients and processes that use it. A [TokenConn] renews its token in time, and
// reconnects with the new one before the server would close the connection, while no messages are in transit if
// possible. Start reading at link.go.
package link
