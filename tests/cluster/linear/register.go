package main

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// junk stands for a value that nobody saw.
const junk = "\x00"

// register is the state of one key.
type register struct {
	value    string
	anything bool // nothing is known, before the first operation of a window
	vanishes bool // a deletion of unknown outcome may make it absent at any time
	deletes  int  // so many of `spare` have happened
	junks    int
}

// spare has the calls of changes of unknown outcome that nobody saw, in order. Each may happen once, right before an operation that
// saw what only it explains.
type spare struct {
	deletes, junks []int64
}

func spareOf(ops []operation) *spare {
	s := &spare{}
	for _, op := range ops {
		switch {
		case op.Outcome != outcomeUnknown:
		case op.Kind == kindDelete:
			s.deletes = append(s.deletes, op.Call)
		case !op.IfNoneMatch && op.IfMatch == "":
			s.junks = append(s.junks, op.Call)
		}
	}
	return s
}

// left is whether one of `calls` is left for an operation that was called at `at`, when `used` have happened.
func left(calls []int64, used int, at int64) bool {
	return used < len(calls) && calls[used] <= at
}

func (r register) holds(op *operation) bool {
	switch {
	case op.IfNoneMatch:
		return r.value == ""
	case op.IfMatch != "":
		return r.value == op.IfMatch
	}
	return true
}

// explained is the state after a spare change that lets `op` see what it saw.
func (r register) explained(op *operation, s *spare) register {
	sawAbsent := (op.isRead() && op.Value == "") || (op.IfNoneMatch && op.Outcome == outcomeOK)
	switch {
	case sawAbsent && r.value != "" && left(s.deletes, r.deletes, op.Call):
		r.value, r.deletes = "", r.deletes+1
	case op.Outcome == outcomeRefused && r.holds(op) && left(s.junks, r.junks, op.Call):
		r.value, r.junks = junk, r.junks+1
	case op.Outcome == outcomeRefused && op.IfMatch != "" && r.holds(op) && left(s.deletes, r.deletes, op.Call):
		r.value, r.deletes = "", r.deletes+1
	}
	return r
}

// step is the model: whether the operation may happen now with what its client saw, and the state after it. An operation of
// unknown outcome may always happen. One that does not is one that happens after everything else.
func (r register) step(op *operation, s *spare) (bool, register) {
	if s != nil && !r.anything {
		r = r.explained(op, s)
	}
	after := r
	after.anything = false
	absent := r.anything || r.vanishes || r.value == ""
	switch {
	case op.isRead():
		after.value = op.Value
		return r.anything || r.value == op.Value || (op.Value == "" && absent), after
	case op.Kind == kindDelete:
		after.value = ""
		return true, after
	case op.Outcome == outcomeRefused:
		return r.anything || !r.holds(op), r
	case r.anything || r.holds(op) || (op.IfNoneMatch && absent):
		after.value = op.Value
		return true, after
	}
	return op.Outcome == outcomeUnknown, r
}

func model(first register, s *spare) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return first },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			return state.(register).step(input.(*operation), s)
		},
	}
}

func check(ops []operation, first register, s *spare, patience time.Duration) porcupine.CheckResult {
	history := make([]porcupine.Operation, len(ops))
	for i := range ops {
		history[i] = porcupine.Operation{ClientId: ops[i].Client, Input: &ops[i], Call: ops[i].Call, Return: ops[i].Return}
	}
	return porcupine.CheckOperationsTimeout(model(first, s), history, patience)
}

// judge checks one key, in at most some three times the patience. Where no order of its operations explains what clients saw, it
// gives a small part of them that shows it.
//
// What is of unknown outcome and was never seen multiplies what has to be tried, above all where nothing can be found. So the
// first look is without it, which is one of the things that may have been. Then it is spare: it happens only where something
// needs it, at once. Then windows of the history are tried, which are small. Only then comes the whole.
func judge(ops []operation, patience time.Duration) (porcupine.CheckResult, []operation) {
	if read := unwritten(ops); read != nil {
		return porcupine.Illegal, read
	}
	for _, s := range []*spare{nil, spareOf(ops)} {
		if check(withoutUnknown(ops), register{}, s, patience/4) == porcupine.Ok {
			return porcupine.Ok, nil
		}
	}
	if part := contradiction(ops, patience); part != nil {
		return porcupine.Illegal, part
	}
	return check(ops, register{}, nil, patience), ops
}

// unwritten finds a read of a value that nobody had begun to write, with the put of that value, if there is one.
func unwritten(ops []operation) []operation {
	puts := make(map[string]operation)
	for _, op := range ops {
		if op.Kind == kindPut && op.Outcome != outcomeRefused {
			puts[op.Value] = op
		}
	}
	for _, op := range ops {
		if !op.isRead() || op.Value == "" {
			continue
		}
		put, found := puts[op.Value]
		if !found {
			return []operation{op}
		}
		if put.Call > op.Return {
			return []operation{op, put}
		}
	}
	return nil
}
