// Package attack attacks a deployment from the wire: with a valid credential of each role, or with one that is none
// any more, by connections that say what no client of Toolbus would say. Its tables are the list of what is tried; each
// row says as whom, and who refuses it. After each row nothing may have changed that was not the attacker's own, and at
// the end of each table a bystander's call works, and what has reached a dispatcher is on record.
package attack
