// Package format defines the format numbers of the data that processes of Toolbus store or send to each other, so that
// builds of different versions can share a bus (docs/compatibility.md). In JSON, the number is the member form.
//
// Each [Kind] of data has its own numbers, and each message contains its number. A build writes one format of each
// kind, and reads the formats that are listed here. For any other number, functions return an [Error], and the process
// leaves the data unchanged. Later builds may add members to a format. A reader ignores unknown members, and keeps them
// where it writes the data again. Toolbus 0.1 wrote the number 1 or no number, and its data is not read.
package format
