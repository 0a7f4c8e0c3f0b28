// Package devbus is the bus of `toolbus dev`, where tokens are asked for: in one process all that a deployment has,
// with secrets that are made at the first start, and credentials for the user that are kept good.
package devbus
