// Package natsserver runs a NATS server with JetStream inside this process: the bus of `toolbus dev`, and the server
// process of `toolbus chaos` and `toolbus bench`.
package natsserver
