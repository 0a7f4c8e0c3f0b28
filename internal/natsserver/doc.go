// Package natsserver runs a NATS server with JetStream inside this process: the zero
// configuration bus of `toolbus dev`, and the server process of `toolbus chaos` and `bench`.
package natsserver
