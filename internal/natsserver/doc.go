// Package natsserver runs a NATS server with JetStream inside this process: the bus of `toolbus dev`, and the server
// process of `toolbus-lab chaos` and `toolbus-lab bench`.
package natsserver
