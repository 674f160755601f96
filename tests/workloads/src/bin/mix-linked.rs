//! `mix` over the runtime that it was linked with: `libcudart.so.12` is mapped before `main`.

use workloads::runtime::Runtime;

fn main() {
    workloads::mix::main(|_| Runtime::linked());
}
