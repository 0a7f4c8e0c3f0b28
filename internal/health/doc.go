// Package health checks a deployment. [Look] checks the streams, the executors and the audit record through JetStream,
// and changes nothing. [Scrub] reads all that the streams hold. [Placed] and [Servers] compare the streams, servers and
// accounts of a deployment that has keys with its profile. Dispatchers make these checks, except Scrub, for operators,
// and package admin for `toolbus doctor` if its connection has the necessary rights.
package health
