package main

import (
	"math"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	windowPatience = 2 * time.Second
	windowMost     = 200 // of a larger window nothing is left out one by one
)

var windowWidths = []int{30, 120, 480}

// history is what windows are cut from, until the deadline.
type history struct {
	ops     []operation // in the order of their calls, without those of unknown outcome
	ends    []int64     // of each operation and those before it: the last return
	end     time.Time
	junk    int64 // from then on there may be values that nobody saw
	deletes int64 // from then on there may be deletions that nobody knows of
}

// span is a part of a history in time, its ends included.
type span struct {
	from, to int64
}

// window is what the history says about a span alone. It says less than the history: if there is no order for it, there
// is none for the whole. Changes that reach over an end are of unknown outcome. Those whose outcome is unknown everywhere
// are not among them. Instead, what they may do may happen at any time.
func (h *history) window(s span) ([]operation, register) {
	first := register{anything: s.from != math.MinInt64, vanishes: h.deletes <= s.to}
	var out []operation
	begin := sort.Search(len(h.ends), func(i int) bool { return h.ends[i] >= s.from })
	for _, op := range h.ops[begin:] {
		if op.Call > s.to {
			break
		}
		if op.Return < s.from {
			continue
		}
		whole := op.Call >= s.from && op.Return <= s.to
		switch {
		case op.isRead() && !whole:
			continue
		case op.Outcome == outcomeRefused && (!whole || op.Return >= h.junk || (op.IfMatch != "" && first.vanishes)):
			continue
		case !whole:
			op.Outcome, op.Return = outcomeUnknown, never
		}
		out = append(out, op)
	}
	return out, first
}

func (h *history) contradicts(s span) bool {
	return contradict(h.window(s))
}

func contradict(ops []operation, first register) bool {
	return check(ops, first, nil, windowPatience) == porcupine.Illegal
}

// contradiction finds a small part of a key's history for which there is no order, or nil: there is none, or not in the time given.
func contradiction(ops []operation, patience time.Duration) []operation {
	h := history{ops: withoutUnknown(ops), end: time.Now().Add(patience), junk: never, deletes: never}
	last := int64(math.MinInt64)
	for _, op := range h.ops {
		last = max(last, op.Return)
		h.ends = append(h.ends, last)
	}
	for _, op := range ops {
		if op.Outcome == outcomeUnknown && op.Kind == kindPut {
			h.junk = min(h.junk, op.Call)
		} else if op.Outcome == outcomeUnknown {
			h.deletes = min(h.deletes, op.Call)
		}
	}
	for _, width := range windowWidths {
		for at := 0; at < len(h.ops) && (at == 0 || at+width/2 < len(h.ops)) && time.Now().Before(h.end); at += width / 2 {
			s := h.spanOf(at, width)
			if h.contradicts(s) {
				h.end = time.Now().Add(patience)
				return h.smallest(s)
			}
		}
	}
	return nil
}

// spanOf is the span from the call of operation `at` to the last end among it and those that follow.
func (h *history) spanOf(at, width int) span {
	s := span{from: h.ops[at].Call, to: h.ops[at].Call}
	if at == 0 {
		s.from = math.MinInt64
	}
	for _, op := range h.ops[at:min(at+width, len(h.ops))] {
		s.to = max(s.to, op.Return)
	}
	return s
}

// smallest narrows a span for which there is no order: the earliest end, then the latest beginning, then without the reads
// that do not matter. Last it leaves out what is of unknown outcome: with it, there is no order either.
func (h *history) smallest(s span) []operation {
	var ends, begins []int64
	for _, op := range h.ops {
		if op.Return <= s.to && op.Return >= s.from {
			ends = append(ends, op.Return)
		}
	}
	sort.Slice(ends, func(i, j int) bool { return ends[i] < ends[j] })
	at := sort.Search(len(ends), func(i int) bool { return h.contradicts(span{s.from, ends[i]}) })
	if at < len(ends) {
		s.to = ends[at]
	}
	for _, op := range h.ops {
		if op.Call >= s.from && op.Call <= s.to {
			begins = append(begins, op.Call)
		}
	}
	at = sort.Search(len(begins), func(i int) bool { return !h.contradicts(span{begins[i], s.to}) })
	if at > 0 {
		s.from = begins[at-1]
	}
	ops, first := h.window(s)
	ops = h.withoutEach(ops, first, (*operation).isRead)
	return h.withoutEach(ops, first, func(op *operation) bool { return op.Outcome == outcomeUnknown })
}

func (h *history) withoutEach(ops []operation, first register, idle func(op *operation) bool) []operation {
	if len(ops) > windowMost {
		return ops
	}
	for i := len(ops) - 1; i >= 0 && time.Now().Before(h.end); i-- {
		if !idle(&ops[i]) {
			continue
		}
		rest := append(append([]operation{}, ops[:i]...), ops[i+1:]...)
		if contradict(rest, first) {
			ops = rest
		}
	}
	return ops
}
