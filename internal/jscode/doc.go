// Package jscode names the error numbers of JetStream that Toolbus goes by, in one table. Start with [Is], which looks
// for such a number in an error, and [Answered], which tells a refusal of the server from no answer at all. The numbers
// are the server's, and stay what they are from one version of it to the next.
package jscode
