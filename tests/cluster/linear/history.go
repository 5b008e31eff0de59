package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
)

// never is when an operation without a known end returns.
const never = math.MaxInt64

// Kinds and outcomes of operations.
const (
	kindPut    = "put"
	kindDelete = "delete"
	kindGet    = "get"
	kindHead   = "head"

	outcomeOK      = "ok"      // it happened; a read saw `value`
	outcomeRefused = "refused" // a conditional put whose condition did not hold
	outcomeFailed  = "failed"  // it surely did not happen, and says nothing about the key
	outcomeUnknown = "unknown" // it may happen at any time after `call`, or never
)

// operation is one line of a history. Times are nanoseconds of one clock. The value "" is an absent object.
type operation struct {
	Client      int    `json:"client"`
	Key         string `json:"key"`
	Kind        string `json:"kind"`
	Value       string `json:"value"`
	IfNoneMatch bool   `json:"if_none_match"` // If-None-Match: *
	IfMatch     string `json:"if_match"`      // the value whose ETag was sent
	Call        int64  `json:"call"`
	Return      int64  `json:"return"`
	Outcome     string `json:"outcome"`
}

func (op *operation) isRead() bool {
	return op.Kind == kindGet || op.Kind == kindHead
}

func (op *operation) validate() error {
	switch op.Kind {
	case kindPut:
		if op.Value == "" {
			return fmt.Errorf("a put without a value")
		}
	case kindDelete, kindGet, kindHead:
		if op.IfNoneMatch || op.IfMatch != "" {
			return fmt.Errorf("a condition of a %s", op.Kind)
		}
	default:
		return fmt.Errorf("no such kind: %q", op.Kind)
	}
	switch op.Outcome {
	case outcomeOK, outcomeFailed, outcomeUnknown:
	case outcomeRefused:
		if !op.IfNoneMatch && op.IfMatch == "" {
			return fmt.Errorf("refused, without a condition")
		}
	default:
		return fmt.Errorf("no such outcome: %q", op.Outcome)
	}
	if op.IfNoneMatch && op.IfMatch != "" {
		return fmt.Errorf("two conditions")
	}
	if op.Outcome != outcomeUnknown && op.Return < op.Call {
		return fmt.Errorf("it returns before it is called")
	}
	return nil
}

// readHistory reads JSON lines and sorts the operations by key. What says nothing is left out: operations that surely
// did not happen, and reads without an answer.
func readHistory(from io.Reader) (map[string][]operation, int, error) {
	keys := make(map[string][]operation)
	written := make(map[string]int)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	count := 0
	for number := 1; lines.Scan(); number++ {
		var op operation
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&op)
		if err == nil {
			err = op.validate()
		}
		if err == nil && op.Kind == kindPut {
			if other := written[op.Key+"\x00"+op.Value]; other != 0 {
				err = fmt.Errorf("line %d put the same value", other)
			}
			written[op.Key+"\x00"+op.Value] = number
		}
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", number, err)
		}
		count++
		if op.Outcome == outcomeUnknown {
			op.Return = never
		}
		if op.Outcome != outcomeFailed && (!op.isRead() || op.Outcome == outcomeOK) {
			keys[op.Key] = append(keys[op.Key], op)
		}
	}
	for _, ops := range keys {
		sort.SliceStable(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	}
	return keys, count, lines.Err()
}

// settleSeen makes each put of unknown outcome whose value was seen one that happened: before the first operation that saw
// it returned. Values are unique, so this takes nothing from what may have been.
func settleSeen(ops []operation) []operation {
	seen := make(map[string]int64)
	for _, op := range ops {
		value := op.IfMatch
		if op.isRead() {
			value = op.Value
		}
		if value == "" || op.Outcome != outcomeOK {
			continue
		}
		if first, found := seen[value]; !found || op.Return < first {
			seen[value] = op.Return
		}
	}
	out := make([]operation, 0, len(ops))
	for _, op := range ops {
		if first, found := seen[op.Value]; found && op.Kind == kindPut && op.Outcome == outcomeUnknown && first >= op.Call {
			op.Outcome, op.Return = outcomeOK, first
		}
		out = append(out, op)
	}
	return out
}

// withoutUnknown leaves out the operations of unknown outcome.
func withoutUnknown(ops []operation) []operation {
	out := make([]operation, 0, len(ops))
	for _, op := range ops {
		if op.Outcome != outcomeUnknown {
			out = append(out, op)
		}
	}
	return out
}
