package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits of what is read from a peer. Those of a server are lower.
const (
	maxLine    = 64 << 10
	maxPayload = 16 << 20
)

var errFrame = errors.New("not the NATS protocol")

// frame is one protocol message: its control line and, if it has one, its payload, both with line ends.
type frame struct {
	verb    string
	subject string
	reply   string
	headers []byte // part of payload
	body    []byte // part of payload
	raw     []byte
}

// carries reports whether the frame contains an application message.
func (f *frame) carries() bool { return f.subject != "" }

// readFrame reads the next frame. It returns the error of the connection, or errFrame.
func readFrame(r *bufio.Reader) (*frame, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	f := &frame{raw: line}
	fields := bytes.Fields(line)
	if len(fields) == 0 {
		return f, nil // servers ignore empty lines
	}
	f.verb = string(bytes.ToUpper(fields[0]))
	headed := f.verb == "HPUB" || f.verb == "HMSG"
	args := fields[1:]
	if f.verb == "MSG" || f.verb == "HMSG" { // subject sid [reply] …
		if len(args) < 3 {
			return nil, fmt.Errorf("%w: %.80q", errFrame, line)
		}
		args = append([][]byte{args[0]}, args[2:]...)
	} else if f.verb != "PUB" && f.verb != "HPUB" {
		return f, nil
	}
	sizes := 1
	if headed {
		sizes = 2
	}
	if len(args) != 1+sizes && len(args) != 2+sizes {
		return nil, fmt.Errorf("%w: %.80q", errFrame, line)
	}
	f.subject = string(args[0])
	if len(args) == 2+sizes {
		f.reply = string(args[1])
	}
	return f, f.readPayload(r, args[len(args)-sizes:])
}

// readPayload reads the payload. sizes are the arguments of the control line: that of the headers, if there are any,
// and the total.
func (f *frame) readPayload(r *bufio.Reader, sizes [][]byte) error {
	total, err := strconv.Atoi(string(sizes[len(sizes)-1]))
	if err != nil || total < 0 || total > maxPayload {
		return fmt.Errorf("%w: payload of %.20q", errFrame, sizes[len(sizes)-1])
	}
	head := 0
	if len(sizes) == 2 {
		if head, err = strconv.Atoi(string(sizes[0])); err != nil || head < 0 || head > total {
			return fmt.Errorf("%w: headers of %.20q", errFrame, sizes[0])
		}
	}
	at := len(f.raw)
	f.raw = append(f.raw, make([]byte, total+2)...)
	if _, err := io.ReadFull(r, f.raw[at:]); err != nil {
		return err
	}
	if !bytes.HasSuffix(f.raw, []byte("\r\n")) {
		return fmt.Errorf("%w: payload without an end", errFrame)
	}
	f.headers, f.body = f.raw[at:at+head], f.raw[at+head:at+total]
	return nil
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("%w: a line longer than %d bytes", errFrame, maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		return line, err
	}
}
