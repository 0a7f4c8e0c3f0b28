// Package usage says what processes have used: CPU, memory, wake-ups. It does so on Linux; elsewhere it says that it
// cannot.
package usage
