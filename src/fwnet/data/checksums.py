"""Checksums of known files, by name, as published.

The CIFAR-10 files that end in .xz hold the published binary batches, compressed further.
`CONTENTS` is the sha256 of all labels followed by all pixels, whatever the format of the file.
"""

from __future__ import annotations

CHECKSUMS = {
    # MNIST, LeCun, Cortes, Burges
    "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
    # CIFAR-10, Krizhevsky
    "cifar-10-python.tar.gz": "md5:c58f30108f718f92721af3b95e74349a",
    "cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530",
    "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "md5:40351d587109b95175f43aff81a1287e",
    "data_batch_1.bin": "md5:5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "md5:5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "md5:942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "md5:ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "md5:53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "md5:803d5f7f4d78ea53de84dbe85f74fb6d",
    "data_batch_1.xz": "sha256:5b0ffc8ca5969a0e3bf2764942a1000155d6faf300babd0ebf0c3d673fa0d61f",
    "data_batch_2.xz": "sha256:e13d4c52917b8ec71624111e3684857e537380b151cb328545d4706f85b6fc66",
    "data_batch_3.xz": "sha256:4bc7c750a1c6a46f52fbf674b45753f37227bc2746a17b2c16ecd501b40027d3",
    "data_batch_4.xz": "sha256:f1030ee0467f17b7cf72f1a10afef7ad39432925378da7b8136bdd7feb577642",
    "data_batch_5.xz": "sha256:393dd3070c5ef01a73e37ef2e7c80aa816ca8df1eff396abde5c2080de5743d7",
    "test_batch.xz": "sha256:2de9b75b858365778540a0ab3d3345cd0afff7818208b71f106d18233fd4097b",
    # CIFAR-100, Krizhevsky; the extracted files are not listed: train and test are too common names
    "cifar-100-python.tar.gz": "md5:eb9058c3a382ffc7106e4002c42a8d85",
    "cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8",
    # Inception-v3 features of CIFAR-10, and a9a of the LIBSVM collection
    "inception_v3_pool3.npz": (
        "sha256:5ed0abea9cfe54fe9618553262d7fdc2105d02ae1ac7e0c3451da9425e0218a8"
    ),
    "a9a.bz2": "sha256:1dcb2b4aedea0b5a9e964192dd211675d16cf05ab6477ddd0702d87c1d1af8da",
    "a9a.t.bz2": "sha256:e55725b53c3c47f7053bd3ef12e41555539eac4c0fe989e69345cc4dd0ea6e8d",
}

CONTENTS = {  # (train, test)
    "mnist": (
        "a454de301763d749ccfd1ebb5add77d549bcd2125320df72efaa88e014fca0f0",
        "103f79bf9cce53f71a186484ee3992e7b298fffa37132ee5660752b8b02ea8e1",
    ),
    "cifar10": (
        "72271e0eaae021dd9568260927404c4fff87e7e0bfa04c843b94150b01b9bc26",
        "ecc0a6ddb5cb58330ce4f06c1825ec8c68baeade5baaacbb3cbdf8f385599213",
    ),
}
