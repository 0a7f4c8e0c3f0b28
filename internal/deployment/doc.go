// Package deployment makes the secrets, certificates, profiles and NATS server configuration of a deployment.
//
// One template makes the configuration of an embedded server, of a single server, and of each server of a cluster. Each
// role has a NATS account of its own. The reason is that a server sends the answers of its API to any reply subject
// that a client names, with the rights of the server, but only within the account of the client. So agents, executors
// and auditors have accounts without JetStream, and use the services and streams that package auth exports to them.
package deployment
