// Package gate says whose a message is: it holds the token that it carries against its subject, and against the
// connection that it came over. It knows no NATS: what the server says of the connection comes with the message.
package gate
